"""Measurements on this machine. They return data and judge nothing; `fewbits bench` prints them."""
