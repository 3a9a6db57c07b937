# The encoder of ti_planted_untrimmed_features.py, compared by the means of its unit tokens.
_base_ = ['ti_planted_untrimmed_features.py']

model = dict(similarity=dict(_delete_=True, type='CosineSimilarity'))
