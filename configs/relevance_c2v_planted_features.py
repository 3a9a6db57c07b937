# What is to be won where class relevance is the aim: scores follow the relevance itself, beside
# the triplet loss.  RAN and RANP see it through a threshold (ran_c2v_planted_features.py).
_base_ = ['c2v_planted_features_triplet.py']

model = dict(
    supervision=dict(type='RelevanceTeacher'),
    losses=dict(relevance=dict(type='DistillationLoss', reads=('global', 'aligned'))),
)
