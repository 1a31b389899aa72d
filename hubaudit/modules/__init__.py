"""What stands between `evaluate` and the estimators: inputs past Arrow, the modules' interfaces, their installation."""
