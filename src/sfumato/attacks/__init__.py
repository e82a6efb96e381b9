"""What an adversary does with releases, done to our own before anybody else does.

This room exists because a proof is about a text and a release comes out of a program. `audit` looks for an
event that tells two neighbours apart better than the claim allows, and certifies what it finds. `subjects`
runs what is audited, `views` sorts its outputs into cells, `neighbours` has pairs of inputs to try, `report`
tells people, and `standing` audits every mechanism of our own. A database is audited as any callable is.

It rests on: the definition of differential privacy as a bound on every event (Dwork and Roth, 2014,
definition 2.4), on Neyman and Pearson (1933) for which event is the best, and on Clopper and Pearson (1934)
for what a count of samples proves.
"""
