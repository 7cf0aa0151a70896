"""The link laboratory: training steps of DDP over shaped links between network namespaces."""
