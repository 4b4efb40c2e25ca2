import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A connector of several tasks, which all write the lines of one file to one topic. Connect fences the ids of the tasks
 * of before only for a connector that had several.
 */
public final class Lines extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> properties) {
        settings = properties;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int count) {
        List<Map<String, String>> tasks = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Map<String, String> task = new HashMap<>(settings);
            task.put("number", String.valueOf(number));
            tasks.add(task);
        }
        return tasks;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return OfTask.class;
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> properties) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void stop() {}

    @Override
    public String version() {
        return "1";
    }

    public static final class OfTask extends SourceTask {
        private Map<String, String> partition;
        private Path file;
        private String topic;
        private int read;

        @Override
        public void start(Map<String, String> properties) {
            partition = Map.of("number", properties.get("number"));
            file = Path.of(properties.get("file"));
            topic = properties.get("topic");
            Map<String, Object> reached = context.offsetStorageReader().offset(partition);
            read = reached == null ? 0 : ((Long) reached.get("lines")).intValue();
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            try {
                List<String> lines = Files.readAllLines(file);
                List<SourceRecord> records = new ArrayList<>();
                for (; read < lines.size(); read++) {
                    Map<String, ?> reached = Map.of("lines", (long) read + 1);
                    records.add(new SourceRecord(partition, reached, topic, Schema.STRING_SCHEMA, lines.get(read)));
                }
                if (!records.isEmpty()) {
                    return records;
                }
            } catch (java.io.IOException e) {
                throw new org.apache.kafka.connect.errors.ConnectException(e);
            }
            Thread.sleep(100);
            return null;
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1";
        }
    }
}
