"""The workloads that scenarios can name, a file each; those of others are plug-ins."""
