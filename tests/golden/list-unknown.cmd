memplan list cards
