# An oracle, no method: every soft positive is known, and is no negative of the triplet loss.
_base_ = ['oracle_c2v_planted_features.py']

model = dict(
    losses=dict(
        _delete_=True, triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.2)
    )
)
