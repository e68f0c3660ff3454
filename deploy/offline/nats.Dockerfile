# A stand-in for the official image of NATS: the server, and what its health check is made with.
FROM scratch
COPY nats-server /usr/local/bin/nats-server
COPY busybox /bin/wget
ENV PATH=/usr/local/bin:/bin
EXPOSE 4222 8222
CMD ["nats-server"]
