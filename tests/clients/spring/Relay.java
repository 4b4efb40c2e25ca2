import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.transaction.KafkaTransactionManager;

/**
 * A Spring application that moves records from one topic to another, exactly once, with a producer for each input
 * partition ({@code EOSMode.V1}): its transactional.id is prefix, group, topic and partition.
 *
 * <p>Arguments: bootstrap servers, input topic, output topic, group, prefix. Ends with the standard input.
 */
final class Relay {
    @SuppressWarnings("deprecation") // EOSMode.V1
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> producers = new HashMap<>();
        producers.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        DefaultKafkaProducerFactory<String, String> producing =
            new DefaultKafkaProducerFactory<>(producers, new StringSerializer(), new StringSerializer());
        producing.setTransactionIdPrefix(arguments[4]);
        KafkaTemplate<String, String> output = new KafkaTemplate<>(producing);

        Map<String, Object> consumers = new HashMap<>();
        consumers.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        consumers.put(ConsumerConfig.GROUP_ID_CONFIG, arguments[3]);
        consumers.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        consumers.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        ContainerProperties container = new ContainerProperties(arguments[1]);
        container.setEosMode(ContainerProperties.EOSMode.V1);
        container.setTransactionManager(new KafkaTransactionManager<>(producing));
        container.setMessageListener(
            (MessageListener<String, String>) record -> output.send(arguments[2], record.key(), record.value()));
        KafkaMessageListenerContainer<String, String> relay = new KafkaMessageListenerContainer<>(
            new DefaultKafkaConsumerFactory<>(consumers, new StringDeserializer(), new StringDeserializer()), container);
        relay.start();
        System.out.println("ready");
        while (System.in.read() >= 0) {
            continue;
        }
        relay.stop();
        producing.destroy();
    }
}
