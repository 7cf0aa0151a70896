"""What the laboratory's page has beside the style sheet of all pages of fewbits."""

LABORATORY_CSS = """
figure img{display:block;max-width:100%;height:auto;margin:auto;border-radius:4px}
h3{font-size:1rem;margin:0 0 .3rem}
article{margin:1.4rem 0 0;padding:1rem 0 0;border-top:1px solid var(--rule)}
.picture{margin:.7rem 0;overflow-x:auto;background:var(--back);border:1px solid var(--rule)}
.title{font-size:.9rem;font-weight:600;margin:.8rem 0 .1rem}
.numbers{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,16rem),1fr));
list-style:none;margin:1.2rem 0;padding:0}
.numbers a{display:block;height:100%;padding:.9rem 1rem;background:var(--card);border-radius:8px;
color:inherit;text-decoration:none;font-size:.95rem}
.numbers b{display:block;font-size:1.9rem;line-height:1.2}
nav ul{columns:3 15rem;margin:.8rem 0;padding-left:1.1rem}
a{color:var(--c1)}
tr.lost td,td.lost{background:var(--lost)}tr.lost td:first-child{box-shadow:inset 3px 0 var(--c2)}
.wordy td,.wordy th{text-align:left;vertical-align:top}
.wordy td.words,.wordy th.words{min-width:10rem}
@media screen and (max-width:44rem){.wordy thead{display:none}.wordy tr,.wordy td{display:block}
.wordy tr{padding:.5rem 0;border-bottom:1px solid var(--rule)}
.wordy td{border:0;padding:.1rem .6rem;white-space:normal}.wordy td:first-child{font-weight:600}
.wordy td:not(:first-child)::before{content:attr(data-title)": ";color:var(--soft)}
.wordy td:empty{display:none}}
@media screen and (max-width:44rem){dl{grid-template-columns:1fr;gap:0}dt{margin-top:.5rem}
.numbers{gap:.4rem;margin:.7rem 0}.numbers a{padding:.4rem .6rem;font-size:.82rem;line-height:1.4}
.numbers b{display:inline;font-size:1.2rem;margin-right:.35rem}}
.fold>summary h2{display:inline-block}.fold>summary{color:inherit}
.scroll{background:
linear-gradient(90deg,var(--back) 30%,transparent) left/2.5rem 100% no-repeat local,
linear-gradient(270deg,var(--back) 30%,transparent) right/2.5rem 100% no-repeat local,
linear-gradient(90deg,var(--rule),transparent) left/.6rem 100% no-repeat scroll,
linear-gradient(270deg,var(--rule),transparent) right/.6rem 100% no-repeat scroll}
details{margin:.6rem 0}summary{cursor:pointer;color:var(--soft);font-size:.9rem}
"""
