"""What releases cost together: the theorems, without a ledger.

composition   the textbook's rules         rules     all of them beside each other
loss          the tight one for steps that are planned, from the `atoms` of each
filters       what holds when every question depends on the answers before
limits, game  what no mechanism can do

It rests on: basic composition (Dwork and Roth, 2014, theorem 3.14); for steps fixed in advance on Kairouz, Oh
and Viswanath (2015) and on dominating pairs (Zhu, Dong and Wang, 2022); for filters on Rogers, Roth, Ullman
and Vadhan (2016), Feldman and Zrnic (2021), Whitehouse, Ramdas, Rogers and Wu (2023).
"""
