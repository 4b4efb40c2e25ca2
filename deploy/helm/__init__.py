"""Makes the table of values in the README of txnscope's Helm chart, and the chart's package, without Helm."""
