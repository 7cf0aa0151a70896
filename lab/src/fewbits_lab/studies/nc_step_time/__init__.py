"""Time of a step: ResNet-110 and AlexNet on a slow link."""
