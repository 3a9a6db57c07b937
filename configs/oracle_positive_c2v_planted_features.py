# An oracle, no method: every soft positive is known, and is a match like the annotated ones.
_base_ = ['oracle_c2v_planted_features.py']

model = dict(supervision=dict(treat='positive'))
