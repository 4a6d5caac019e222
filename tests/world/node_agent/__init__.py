"""Tests of gitkruise.world.node_agent."""
