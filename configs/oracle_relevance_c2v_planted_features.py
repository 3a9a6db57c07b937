# An oracle, no method: scores follow the class relevance itself, beside the triplet loss.  How much
# is to be won where it is the aim; RAN and RANP see it through a threshold.  The weight makes up
# for a mean over all pairs, few of which are relevant (with 1 it gains less than half of it).
_base_ = ['c2v_planted_features_triplet.py']

model = dict(
    supervision=dict(type='RelevanceTeacher'),
    losses=dict(
        relevance=dict(type='DistillationLoss', reads=('global', 'aligned'), loss_weight=30.0)
    ),
)
