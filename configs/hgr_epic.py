# HGR on EPIC-KITCHENS-100: TBN features, verbs and nouns as annotated.
_base_ = ['_base_/default_runtime.py', '_base_/epic.py', '_base_/hgr.py']

model = dict(
    encoder=dict(
        frames=dict(in_dim=3072),
        text=dict(words=2000, pretrained='data/epic/word_vectors.npy'),
    )
)
default_hooks = dict(checkpoint=dict(save_best='relevance/avg_nDCG'))

environments = 'train_dataloader.dataset.records.environments'
# The short or the long clips alone: controls of causal_hgr_epic.py, and halves of the paper's
# letter, whose halves are trained apart: `tools/test.py configs/hgr_epic.py SHORT.pth LONG.pth`
# sums them.
preset_short = {environments: dict(type='LengthSplit', parts=2, only=0)}
preset_long = {environments: dict(type='LengthSplit', parts=2, only=1)}
# RmvAll (Algorithm 1): clips of a class leave until its mean train length is within 10 frames of
# its test length; classes of 60 clips or fewer lose none (Sec. 4).  It reads test lengths.
removal = dict(
    type='RemoveByLength',
    alpha=60,
    delta=10.0,
    test=dict(type='mmvtr.EPICKitchensDataset', split='test'),
)
preset_rmv_all = {environments: removal}
# RmvRand: as many clips leave as by RmvAll, at random.
preset_rmv_rand = {environments: dict(type='RemoveRandom', like=removal)}
# RmvOne (Tab. 8): of "pick up rubbish" (take 0, rubbish 54), 95 clips, the shortest leave until 43
# are left, whose mean of 302.30 frames is near the test clips' 305.5.  It reads test lengths.  The
# contrary row is `--cfg-options train_dataloader.dataset.records.environments.opposite=True`.
preset_rmv_one = {environments: dict(removal, alpha=43, delta=0.0, action=(0, 54))}
