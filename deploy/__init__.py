"""Ways to run txnscope: a container image, Compose, and the demo. The product imports none of them."""
