package rescale;

import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.util.UUID;

import org.apache.flink.table.functions.ScalarFunction;

/** What the job in job.py is fed and watched with. Kept simple: Janino, which Flink brings along, compiles it. */
public final class Functions {

    /** Holds every row back until it is due, so that the input is open-loop: a stall makes nobody wait but its rows. */
    public static class Due extends ScalarFunction {
        private long now;

        /** The row's number, at or after `sinceMs + row * 1000 / rate`. */
        public Long eval(Long row, Long sinceMs, Long rate) throws InterruptedException {
            long due = sinceMs + (row * 1000 + rate - 1) / rate;
            while (now < due) {
                now = System.currentTimeMillis();
                if (now < due) {
                    Thread.sleep(Math.min(due - now, 50L));
                }
            }
            return row;
        }
    }

    /** The key of a row: evenly scattered, the same as benchmarks.clock_source.scattered. */
    public static class Scatter extends ScalarFunction {
        public Long eval(Long row, Long keys) {
            return ((row * 0x9E3779B97F4A7C15L) >>> 32) * keys >>> 32;
        }
    }

    /** Notes when every `every`th row came out: pairs (row, ms since 1970), big-endian, one file per task and attempt. */
    public static class Seen extends ScalarFunction {
        private static final long FLUSH_MS = 200;

        private transient DataOutputStream out;
        private transient long flushed;

        public Long eval(Long row, Long every, String directory) throws IOException {
            if (row % every == 0) {
                long now = System.currentTimeMillis();
                if (out == null) {
                    File file = new File(directory, UUID.randomUUID() + ".bin");
                    out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(file), 1 << 16));
                }
                out.writeLong(row);
                out.writeLong(now);
                if (now - flushed > FLUSH_MS) {
                    out.flush();
                    flushed = now;
                }
            }
            return row;
        }

        public void close() throws IOException {
            if (out != null) {
                out.close();
            }
        }
    }
}
