# MSR-VTT 1k-A: 9,000 training videos with 20 captions each, 1,000 test pairs (docs/data.md).
_base_ = ['data_clip4clip.py']

train_dataloader = dict(dataset=dict(type='mmvtr.MSRVTTDataset', split='1kA_train9k'))
test_dataloader = dict(dataset=dict(type='mmvtr.MSRVTTDataset', split='1kA_test'))
test_evaluator = [
    dict(type='mmvtr.RetrievalMetric'),
    dict(type='mmvtr.NormalisationMetric'),  # NCL Fig. 2 and 3
]
# 1k-A has no validation set: the last epoch is tested, and nothing is chosen on the test set.
