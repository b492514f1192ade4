import java.net.InetSocketAddress;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A name node and a data node of HDFS in FOLDER, until standard input ends. Prints the port of the name node's HTTP. */
public class HdfsNodes {
    public static void main(String[] args) throws Exception {
        var configuration = new Configuration();
        configuration.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, args[0]);
        configuration.set("dfs.permissions.enabled", "false");
        // Blocks so small that the files of a test have several.
        configuration.set("dfs.namenode.fs-limits.min-block-size", "4096");
        configuration.set("dfs.blocksize", "65536");
        configuration.set("dfs.bytes-per-checksum", "512");
        try (var cluster = new MiniDFSCluster.Builder(configuration).numDataNodes(1).build()) {
            cluster.waitActive();
            InetSocketAddress pages = cluster.getNameNode().getHttpAddress();
            System.out.println("ready " + pages.getPort());
            while (System.in.read() >= 0) {
                continue;
            }
        }
    }
}
