memplan list attention
