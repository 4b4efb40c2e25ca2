import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams applications that count orders, exactly once (EOS v2). Several instances in one process, each with a
 * state directory and so a process id of its own, start one after another as in a rolling deployment.
 *
 * <p>Arguments: bootstrap servers, topic, directory, pause between two starts in ms, then {@code application.id:protocol}
 * of each instance. They end with the standard input.
 *
 * <p>The order "broken APPLICATION" ends the thread of the application that comes to it, once; at "slow APPLICATION" its
 * thread stops for longer than its transaction may be open, once.
 */
final class Orders {
    private static final int TIMEOUT_MS = 10_000; // the default of Kafka Streams
    private static final int SESSION_MS = 10_000; // a thread that is gone is missed sooner than after 45 s
    private static final Set<String> SEEN = ConcurrentHashMap.newKeySet();
    private static final List<KafkaStreams> STARTED = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        for (int n = 4; n < arguments.length; n++) {
            if (n > 4) {
                Thread.sleep(Long.parseLong(arguments[3]));
            }
            String[] instance = arguments[n].split(":");
            Path directory = Path.of(arguments[2], Integer.toString(n - 4));
            Properties properties = properties(arguments[0], instance[0], instance[1], directory);
            if (instance[1].equals("classic")) { // started again, it is the same member, and nobody waits for the old one
                properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), "instance-" + n);
                properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), SESSION_MS);
            }
            start(instance[0], properties, arguments[1]);
        }
        System.out.println("ready");
        waitForTheEndOfInput();
        STARTED.parallelStream().forEach(streams -> streams.close(Duration.ofSeconds(20)));
        Runtime.getRuntime().halt(0);
    }

    private static Properties properties(String bootstrap, String application, String protocol, Path directory) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        properties.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, protocol);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // each order is written at once
        properties.put(StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG, Long.MAX_VALUE); // new instances get work at once
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), TIMEOUT_MS);
        return properties;
    }

    private static void start(String application, Properties properties, String topic) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic, Consumed.with(Serdes.String(), Serdes.String()))
            .peek((customer, order) -> trouble(order, application))
            .groupByKey()
            .count()
            .toStream()
            .to(topic + "-" + application, Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.start();
        STARTED.add(streams);
    }

    private static void trouble(String order, String application) {
        if (order.equals("broken " + application) && SEEN.add(order)) {
            pause(1_000); // what it wrote before is on its way
            throw new IllegalStateException(order);
        }
        if (order.equals("slow " + application) && SEEN.add(order)) {
            pause(TIMEOUT_MS + TIMEOUT_MS / 2);
        }
    }

    private static void pause(int forMs) {
        try {
            Thread.sleep(forMs);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void waitForTheEndOfInput() throws IOException {
        while (System.in.read() >= 0) {
            continue;
        }
    }
}
