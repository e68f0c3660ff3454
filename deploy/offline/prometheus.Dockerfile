# A stand-in for the official image of Prometheus.
ARG BASE
FROM ${BASE}
RUN ln -s /bin/busybox /usr/local/bin/wget && mkdir /prometheus && chown nobody:nogroup /prometheus
USER nobody
VOLUME /prometheus
EXPOSE 9090
ENTRYPOINT ["/usr/bin/prometheus"]
