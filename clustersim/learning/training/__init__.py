"""Real training with torch, in a simulated order. Only this package imports torch, when something is trained."""
