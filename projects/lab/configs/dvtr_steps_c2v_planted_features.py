# DVTR with options to return to the printed equations step by step (evidence/pages/dvtr_ladder.md).
_base_ = ['../../../configs/dvtr_c2v_planted_features.py']

# PYTHONPATH=projects/lab/evidence
custom_imports = dict(imports=['study_parts.dvtr_steps'], allow_failed_imports=False)
model = dict(supervision=dict(type='DVTRStepsSupervision'))
