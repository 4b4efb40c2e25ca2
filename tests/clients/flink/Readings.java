import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * An Apache Flink job in a cluster of its own process: numbered readings go exactly once to two topics, by a KafkaSink of
 * each naming strategy, in two subtasks. Begins at its newest checkpoint or savepoint, if there is one.
 *
 * <p>Arguments: bootstrap servers, topic of both sinks, directory, transaction.timeout.ms. Takes a command a line, and
 * answers each with a line: {@code checkpoint} waits for two more checkpoints, {@code fail} lets an operator throw and
 * waits until the job has recovered, {@code savepoint} stops the job with a savepoint. {@code halt} ends the process
 * right after the next checkpoint is complete, before the sink has committed it; nothing answers.
 */
final class Readings {
    private static final int PARALLELISM = 2;
    private static final int CHECKPOINT_MS = 1_000;
    private static final double READINGS_PER_S = 40;

    private static final AtomicLong COMPLETED = new AtomicLong();
    private static final AtomicInteger OPENED = new AtomicInteger();
    private static volatile boolean mustFail;
    private static volatile boolean mustHalt;

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[2]);
        JobClient job = start(arguments[0], arguments[1], directory, arguments[3]);
        awaitCheckpoints(job, 1);
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            switch (command) {
                case "checkpoint" -> awaitCheckpoints(job, 2);
                case "fail" -> fail(job);
                case "halt" -> mustHalt = true;
                case "savepoint" -> job.stopWithSavepoint(
                        false, directory.resolve("savepoints").toUri().toString(), SavepointFormatType.CANONICAL)
                    .get();
                default -> throw new IllegalArgumentException(command);
            }
            System.out.println("done");
        }
        Runtime.getRuntime().halt(0);
    }

    private static JobClient start(String bootstrap, String topic, Path directory, String timeoutMs) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.dir", directory.resolve("checkpoints").toUri().toString());
        settings.setString("execution.checkpointing.interval", CHECKPOINT_MS + " ms");
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("execution.checkpointing.num-retained", "3");
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "10");
        settings.setString("restart-strategy.fixed-delay.delay", "1 s");
        newestState(directory)
            .ifPresent(state -> settings.setString("execution.state-recovery.path", state.toUri().toString()));

        StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, settings);
        DataGeneratorSource<String> source = new DataGeneratorSource<>(
            number -> "reading " + number, Long.MAX_VALUE, RateLimiterStrategy.perSecond(READINGS_PER_S), Types.STRING);
        // an exchange makes one region of the job: if a subtask fails, all of them start again
        DataStream<String> readings = flink.fromSource(source, WatermarkStrategy.noWatermarks(), "readings")
            .uid("readings")
            .map(new Halt())
            .uid("halt")
            .rebalance()
            .map(new Trouble())
            .uid("trouble");
        for (TransactionNamingStrategy strategy : TransactionNamingStrategy.values()) {
            String prefix = "flink-" + strategy.name().toLowerCase();
            readings.sinkTo(sink(bootstrap, topic, prefix, timeoutMs, strategy)).uid(prefix);
        }
        return flink.executeAsync("readings");
    }

    private static KafkaSink<String> sink(
            String bootstrap, String topic, String prefix, String timeoutMs, TransactionNamingStrategy strategy) {
        return KafkaSink.<String>builder()
            .setBootstrapServers(bootstrap)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(prefix)
            .setTransactionNamingStrategy(strategy)
            .setProperty("transaction.timeout.ms", timeoutMs)
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(topic)
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
    }

    /** The newest complete checkpoint or savepoint: its metadata are written last. */
    private static Optional<Path> newestState(Path directory) throws IOException {
        if (!Files.exists(directory)) {
            return Optional.empty();
        }
        try (Stream<Path> files = Files.walk(directory)) {
            return files.filter(file -> file.endsWith("_metadata"))
                .max(Comparator.comparingLong(file -> file.toFile().lastModified()))
                .map(Path::getParent);
        }
    }

    private static void awaitCheckpoints(JobClient job, int more) throws Exception {
        long until = COMPLETED.get() + more;
        while (COMPLETED.get() < until) {
            JobStatus status = job.getJobStatus().get();
            if (status.isGloballyTerminalState()) {
                throw new IllegalStateException("the job is " + status);
            }
            Thread.sleep(50);
        }
    }

    private static void fail(JobClient job) throws Exception {
        int opened = OPENED.get();
        mustFail = true;
        while (OPENED.get() < opened + PARALLELISM) {
            Thread.sleep(50);
        }
        awaitCheckpoints(job, 2);
    }

    /** Halts the process on command. Sources are told first that a checkpoint is complete; the sinks are other tasks. */
    private static final class Halt implements MapFunction<String, String>, CheckpointListener {
        private static final long serialVersionUID = 1L;

        @Override
        public String map(String reading) {
            return reading;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            if (mustHalt) {
                Runtime.getRuntime().halt(1);
            }
        }
    }

    /** Fails on command. Counts complete checkpoints: sinks of its task are told of them before, and have committed. */
    private static final class Trouble extends RichMapFunction<String, String> implements CheckpointListener {
        private static final long serialVersionUID = 1L;

        @Override
        public void open(OpenContext context) {
            OPENED.incrementAndGet();
        }

        @Override
        public String map(String reading) {
            if (mustFail) {
                mustFail = false;
                throw new IllegalStateException("told to fail");
            }
            return reading;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            if (getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 0) {
                COMPLETED.incrementAndGet();
            }
        }
    }
}
