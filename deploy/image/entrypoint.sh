#!/bin/sh
# What a container of the image runs: "executor" and "driver" as Spark on Kubernetes asks for them, or any command.
set -eu
case "${1:-}" in
executor)
  shift
  set -- -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
    -cp "$SPARK_HOME/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME" "$@"
  # Options of the JVM are numbered; the last one comes first here, and goes before what is there already.
  number=0
  while eval "[ -n \"\${SPARK_JAVA_OPT_$number:-}\" ]"; do number=$((number + 1)); done
  while [ "$number" -gt 0 ]; do
    number=$((number - 1))
    eval "set -- \"\$SPARK_JAVA_OPT_$number\" \"\$@\""
  done
  exec java "$@"
  ;;
driver)
  shift
  exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
    --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
  ;;
*)
  exec "$@"
  ;;
esac
