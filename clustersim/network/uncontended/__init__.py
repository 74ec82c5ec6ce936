"""Finish times of collectives that share no link with other traffic, in closed form: a shortcut of the network."""
