# DVTR whose steps from the letter can be taken one at a time (evidence/pages/dvtr_ladder.md).
_base_ = ['../../../configs/dvtr_c2v_planted_features.py']

# PYTHONPATH=projects/lab/evidence
custom_imports = dict(imports=['study_parts.dvtr_steps'], allow_failed_imports=False)
model = dict(supervision=dict(type='DVTRStepsSupervision'))
