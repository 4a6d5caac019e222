"""Tests of gitkruise.admission.webhooks."""
