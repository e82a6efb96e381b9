"""How good an answer can be, and what somebody learns from it.

A mechanism is a law for every secret; a reader has a prior, makes a guess, and gains something by it. Whether
for good or for ill, it is the same number: `gain` computes it, with the best guess for every output;
`leakage` compares it with what was known before; `optimal` finds the mechanism in which it is largest for an
analyst at a given epsilon, and says where no mechanism can be better for anybody. `guessing` and `goals` turn
epsilon into what an attacker may gain about one person, whatever the mechanism, and back.

It rests on: Ghosh, Roughgarden and Sundararajan (2009) for universal optimality on counts; Brenner and Nissim
(2010) for why there is none beyond paths; Alvim, Chatzikokolakis, McIver, Morgan, Palamidessi and Smith
(2020) for g-leakage and refinement; Blahut and Arimoto (1972) for capacity; Chatzikokolakis, Andres,
Bordenabe and Palamidessi (2013) for metrics in place of adjacency.
"""
