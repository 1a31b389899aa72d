"""hubaudit tells what quantization and fine-tuning changed in a model."""
