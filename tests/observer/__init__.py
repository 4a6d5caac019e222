"""An independent observer, and the laws that what gitkruise says is what is so."""
