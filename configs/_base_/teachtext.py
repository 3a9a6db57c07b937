# TeachText over CE (docs/teachers.md): the same model, trained with three embeddings of words,
# teaches it.
#     _base_ = ['ce_SET.py', '_base_/teachtext.py']
#     model = _base_.teachtext
teachers = ['gpt2-xl', 'gpt2-xl-finetuned', 'w2v']
teachtext = dict(
    supervision=dict(type='StoredTeachers', teachers=teachers),
    losses=dict(distillation=dict(type='DistillationLoss')),
)
