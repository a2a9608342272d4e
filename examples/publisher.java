// A publisher in Java: every event reaches fis, none is booked twice, and the publisher hears what was rejected.
//
//     lib/ has amqp-client (com.rabbitmq), slf4j-api (org.slf4j) and jackson-databind with -core and -annotations (com.fasterxml.jackson.core)
//     FIS_AMQP_URL=amqp://user:password@127.0.0.1:5672/%2Ffis java -cp 'lib/*' publisher.java QUEUE FILE [REJECTIONS]
//
// Publishes the events of FILE, one line of JSON each: {"routingKey": "...", "body": {...}}. Then tells of rejections until it is stopped, or
// until REJECTIONS have come. They wait in QUEUE, which is declared and bound here.

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeoutException;

class Publisher {
    static final ObjectMapper JSON = new ObjectMapper().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS);
    static final long CONFIRM_MS = 10_000;

    final ConnectionFactory factory = new ConnectionFactory();
    final String queue;
    Channel channel;
    volatile String returned;

    Publisher(String queue) throws Exception {
        this.queue = queue;
        factory.setUri(System.getenv("FIS_AMQP_URL"));
        factory.setAutomaticRecoveryEnabled(false); // a lost session is replaced below, where it is known what was lost
    }

    void connect() throws IOException, TimeoutException {
        channel = factory.newConnection().createChannel();
        // Bound before anything is published, so that no rejection is missed.
        channel.queueDeclare(queue, true, false, false, Map.of("x-queue-type", "quorum"));
        channel.queueBind(queue, "fis.domain.exchange", "fis.event.rejected");
        channel.addReturnListener((code, text, exchange, key, properties, body) -> returned = properties.getMessageId());
        channel.confirmSelect();
    }

    // Sends one event until the broker has it. Whatever is sent again has the same event id: nothing can post twice.
    void publish(JsonNode event) throws Exception {
        JsonNode body = event.get("body");
        String id = body.get("eventId").asText();
        AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
            .deliveryMode(2) // persistent
            .contentType("application/json")
            .messageId(id) // comes back as `messageId` in a rejection
            .userId(factory.getUsername())
            .headers(Map.of("x-fis-tenant", body.get("tenantId").asText()))
            .build();
        while (true) {
            try {
                if (channel == null) connect();
                String key = event.get("routingKey").asText();
                channel.basicPublish("fis.events.exchange", key, true, properties, JSON.writeValueAsBytes(body));
                if (channel.waitForConfirms(CONFIRM_MS)) {
                    if (!id.equals(returned)) break; // a return comes before its confirm
                    throw new IllegalStateException("returned " + id + ": no queue is bound; an operator runs `fis topology apply`");
                }
                System.out.println("refused " + id + ": the queue is full, again in a second");
            } catch (ShutdownSignalException | IOException | TimeoutException error) {
                Throwable cause = error.getCause() instanceof ShutdownSignalException ? error.getCause() : error;
                // 404: no such exchange; 403: no right to write to it
                if (cause instanceof ShutdownSignalException shutdown && shutdown.getReason() instanceof AMQP.Channel.Close close) {
                    throw new IllegalStateException("stopped at " + id + ": " + close.getReplyCode() + " " + close.getReplyText());
                }
                System.out.println("lost " + id + ": " + cause + ", again in a second"); // whether the broker has it is unknown
                channel = null;
            }
            Thread.sleep(1000);
        }
        System.out.println("confirmed " + id);
    }

    public static void main(String[] args) throws Exception {
        try {
            run(args);
        } catch (IllegalStateException stopped) {
            System.err.println(stopped.getMessage());
            System.exit(1); // an open connection would keep the program alive
        }
    }

    static void run(String[] args) throws Exception {
        long count = args.length > 2 ? Long.parseLong(args[2]) : Integer.MAX_VALUE;
        // In your service, read them from a table of your own that is written in the transaction of the business, and mark them when
        // they are confirmed. An amount is a string, because a float would round it.
        List<JsonNode> events = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args[1]))) {
            if (!line.isBlank()) events.add(JSON.readTree(line));
        }
        Publisher publisher = new Publisher(args[0]);
        Set<String> own = new HashSet<>();
        for (JsonNode event : events) {
            publisher.publish(event);
            own.add(event.get("body").get("eventId").asText());
        }
        if (publisher.channel == null) publisher.connect();
        Channel channel = publisher.channel;
        CountDownLatch rejections = new CountDownLatch((int) count);
        channel.basicConsume(args[0], false, (tag, message) -> {
            JsonNode data = JSON.readTree(message.getBody()).get("data");
            if (own.contains(data.get("messageId").asText())) { // others publish, too
                System.out.printf("rejected %s %s: %s (%s)%n", data.get("messageId").asText(), data.get("reason").asText(),
                    data.get("detail").asText(), data.get("deadLetterId").asText());
                rejections.countDown();
            }
            channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
        }, tag -> {});
        rejections.await();
        channel.getConnection().close();
        System.out.printf("summary confirmed=%d rejected=%d%n", events.size(), count - rejections.getCount());
    }
}
