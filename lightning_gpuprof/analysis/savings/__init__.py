"""How much of a cost a change can win back: what the rules' savings rest on."""
