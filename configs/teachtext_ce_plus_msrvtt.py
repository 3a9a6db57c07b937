# TeachText on CE+, MSR-VTT 1k-A (NCL Tab. 3): as on MSR-VTT Full, the last epoch.
_base_ = ['teachtext_ce_plus_msrvtt_full.py']

train_dataloader = dict(dataset=dict(split='1kA_train9k'))
val_dataloader = val_cfg = val_evaluator = None
test_dataloader = dict(dataset=dict(split='1kA_test'))
