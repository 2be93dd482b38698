"""What configs of the hosts may name: tables made by `extract`, read by `detperf_plugins.doctor.configs`."""
