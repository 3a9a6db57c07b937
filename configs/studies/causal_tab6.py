# Frame-length paper, Tab. 6: which features.
paper, table, section = 'frame length', 'Tab. 6', '4.2'
about = 'spatial and temporal features, EPIC-KITCHENS-100'
config = 'hgr_epic.py'
metrics = {'relevance/avg_nDCG': 'nDCG', 'relevance/avg_epic_mAP': 'mAP'}
rows = {
    'all': dict(printed=[38.12, 39.79]),
    **{
        f'without {name}': dict(
            options={
                'train_dataloader.dataset.video_pipeline.0.columns': columns,
                'test_dataloader.dataset.video_pipeline.0.columns': columns,
                'model.encoder.frames.in_dim': 2048,
            },
            printed=printed,
        )
        # TBN's RGB, flow and audio, 1,024 each.
        for name, columns, printed in (
            ('audio', [[0, 2048]], [36.55, 37.77]),
            ('spatial', [[1024, 3072]], [36.63, 35.63]),
            ('temporal', [[0, 1024], [2048, 3072]], [32.56, 32.50]),
        )
    },
}
