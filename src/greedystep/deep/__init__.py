"""Deep value learning: one agent whose parts are chosen by its config, trained on the device."""
