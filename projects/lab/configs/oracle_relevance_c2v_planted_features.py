# An oracle, not a method: scores are fitted to the class relevance itself, besides the triplet
# loss. It shows how much can be gained if relevance is the aim; RAN and RANP use it through a
# threshold. The weight compensates for a mean over all pairs, few of which are relevant (with 1 it
# gains less than half of it).
_base_ = '../../../configs/c2v_planted_features_triplet.py'

model = dict(
    losses=dict(
        triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.2),
        relevance=dict(type='DistillationLoss', reads=('global', 'aligned'), loss_weight=30.0),
    ),
    supervision=dict(type='RelevanceTeacher'),
)
