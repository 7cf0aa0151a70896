"""The page's style sheet: light, dark, on paper and on a phone."""

CSS = """
:root{color-scheme:light dark;
--back:#fff;--text:#1c2024;--soft:#60676f;--rule:#d9dde2;--card:#f6f7f9;
--c0:#5b6570;--c1:#0072b2;--c2:#d55e00;--c3:#008f68;--c4:#b0568c;--c5:#9a7400;
--compute:#9aa7b4;--codec:#d55e00;--wire:#0072b2;--lost:#fdf0e7}
@media screen and (prefers-color-scheme:dark){:root{
--back:#14171a;--text:#e6e9ec;--soft:#9aa3ac;--rule:#333a41;
--card:#1c2025;--c0:#aeb8c2;--c1:#56b4e9;--c2:#f0874a;--c3:#2fc79b;--c4:#e08fbd;--c5:#d9b63a;
--compute:#6d7986;--codec:#f0874a;--wire:#56b4e9;--lost:#33241a}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:72rem;background:var(--back);
color:var(--text);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2.2rem 0 .6rem}
p{margin:.3rem 0}p,li,h2,h3,summary{overflow-wrap:anywhere}.soft{color:var(--soft);font-size:.9rem}
.figures{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr))}
.time{max-width:32rem}
figure{margin:0;padding:.75rem;background:var(--card);border-radius:8px}
figcaption{font-size:.9rem;font-weight:600;margin-bottom:.3rem}
svg{display:block;width:100%;height:auto}svg text{fill:var(--soft);font-size:11px}
.grid{stroke:var(--rule);stroke-width:1}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1);stroke-dasharray:7 2}.c2{stroke:var(--c2)}
.c3{stroke:var(--c3);stroke-dasharray:2 2}.c4{stroke:var(--c4);stroke-dasharray:9 3 2 3}
.c5{stroke:var(--c5);stroke-dasharray:5 5}
.compute{fill:var(--compute)}.codec{fill:var(--codec)}.wire{fill:var(--wire)}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;margin:.4rem 0 .7rem;padding:0;list-style:none;
font-size:.9rem}
.legend svg{display:inline-block;width:28px;height:10px;margin-right:.4rem;vertical-align:middle}
.scroll{overflow-x:auto}
.gain{display:flex;flex-wrap:wrap;gap:.6rem 2.2rem;margin:.2rem 0 .8rem;padding:0;list-style:none}
.gain b{display:block;font-size:1.7rem;line-height:1.2;font-variant-numeric:tabular-nums}
h2 code{font-size:1em}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.4rem .5rem;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{font-weight:600;color:var(--soft);white-space:normal;vertical-align:bottom}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem;margin:0;font-size:.9rem}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.verdicts{padding-left:1.1rem;margin:.4rem 0}.verdicts li{margin:.35rem 0}
td.left,th.left{text-align:left}
td.words,th.words{text-align:left;white-space:normal;min-width:13rem}
code{font:.9em ui-monospace,monospace}
@media (max-width:30rem){th,td{padding:.4rem .3rem}.gain b{font-size:1.4rem}.gain{gap:.5rem 1.4rem}
td:first-child{white-space:normal;min-width:5.4rem}}
@media print{:root{color-scheme:light}body{max-width:none;padding:0;font-size:11pt}
figure,tr{break-inside:avoid}figure{background:none;border:1px solid var(--rule)}
h2,h3,article>p,.title{break-after:avoid}p.soft{break-before:avoid}
table{font-size:8pt}th,td{white-space:normal!important;min-width:0!important;padding:.2rem .3rem}
.figures{grid-template-columns:repeat(3,1fr)}figure img{min-width:0!important}
.scroll{overflow:visible}*{print-color-adjust:exact}}
"""
