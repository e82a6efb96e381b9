"""The path of a query, and what comes out of it.

This room exists so that the order of things can be read in one place: refuse from public facts, charge on
disk, run in the engine, draw while still sealed, store, show. `path` is that order, for every room; `asked`
is what a `question` and a `batch` have in common, and `database` is the face of it all. `calibrate` turns
distances and a price into noise; `measuring` and `fits` find caps that fit the data, `tuning` and `caps`
those that the owner asked for; `release` and `explanation` are what an analyst sees; `intervals` says how
wrong a number may be, `shortfalls` for what caps cut; `promises` judges what was promised to people,
`suggest` tells the owner what that costs, `participant` tells them; `show` prints.

It rests on: post-processing (Dwork and Roth, 2014, proposition 2.1) for everything after the draw; Fieller
(1954) for the error of ratios; the union bound for everything that has no sharper law.
"""
