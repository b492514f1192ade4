package dev.odradek;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/** A fresh cluster for each test that takes a {@link Cluster}; on a test it says what that one is. */
@Target({ElementType.TYPE, ElementType.METHOD})
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(OdradekExtension.class)
public @interface Odradek {
    /** How many; one, or as many as its story has. */
    int brokers() default 0;

    /** NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS. */
    String[] topics() default {};

    /** One of docs/stories, with its rules and its cluster. */
    String story() default "";

    /** A snapshot of the hub ({@link Cluster#snapshot}): the cluster is a fork, and goes on from there. */
    String from() default "";

    /** KEY=VALUE, by Kafka's names. */
    String[] config() default {};

    /** A release of Kafka, such as 3.6. */
    String asKafka() default "";

    /** A dialect of Kafka, in place of a release. */
    String dialect() default "";

    int transactionVersion() default -1;

    /** Of every random choice of the brokers; -1: another one each time. */
    int seed() default -1;

    /** ssl, sasl-plaintext or sasl-ssl; {@link Cluster#settings} says how a client gets in. */
    String security() default "";

    /** NAME=PASSWORD, where clients log in; else one is made up. */
    String[] users() default {};
}
