"""Built-in workloads that scenarios can name, one file each; plug-ins add others."""
