# EgoVLP's fine-tuning on EPIC-KITCHENS-100 over CLIP4Clip (meanP): a clip meets any sentence of
# relevance above .1, and max-margin loss scales the margin of a pair by its relevance.
_base_ = ['egonce_clip_epic.py']

model = dict(losses=dict(_delete_=True, max_margin=dict(type='AdaptiveMaxMarginLoss', margin=0.4)))
train_dataloader = dict(dataset=dict(split='train_sentences', epoch_unit='video', related=0.1))
