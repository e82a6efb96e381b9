import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;

/**
 * Asks a server, through the JDBC driver of PostgreSQL, what tools such as DBeaver and Metabase ask.
 *
 * Usage: java -cp /usr/share/java/postgresql.jar Metadata.java jdbc:postgresql://host:port/database user password
 *
 * Prints one JSON object per line and call: {"call": ..., "columns": [...], "rows": [[...]]}, or, where the call
 * failed, {"call": ..., "error": ...}. Values are text, or null. A failed call does not stop the others: each runs
 * in autocommit, or in a transaction that is rolled back. The exit code is 0 as long as the connection was made.
 *
 * With the system property "pause" set (-Dpause=true), it prints {"begin": call} before each call and waits for a
 * line on standard input, so that a recorder can tell which statements belong to which call.
 *
 * It expects the tables patients(patient_id bigint, age bigint, region text, diabetic boolean) and
 * visits(patient_id bigint, ward text, day date, cost double precision, seen timestamp).
 */
public class Metadata {

    /** One thing to ask; what it returns is printed. */
    interface Call {
        Object run() throws Exception;
    }

    /** A result that is a table, already read. */
    record Table(List<String> columns, List<List<String>> rows) {}

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final boolean PAUSE = System.getProperty("pause") != null;

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 3) {
            System.err.println("usage: Metadata.java <jdbc url> <user> <password>");
            System.exit(2);
        }
        begin("connect");
        try (Connection connection = DriverManager.getConnection(arguments[0], arguments[1], arguments[2])) {
            print("connect", table("class", connection.getClass().getSimpleName()));
            session(connection);
            facts(connection.getMetaData());
            catalog(connection.getMetaData());
            queries(connection);
            resultSetMetaData(connection);
            transactions(connection);
            begin("close");
        }
    }

    /** What a connection says of itself. */
    private static void session(Connection c) {
        call("Connection.getCatalog", c::getCatalog);
        call("Connection.getSchema", c::getSchema);
        call("Connection.isValid", () -> c.isValid(5));
        call("Connection.getTransactionIsolation", c::getTransactionIsolation);
        call("Connection.getAutoCommit", c::getAutoCommit);
        call("Connection.isReadOnly", c::isReadOnly);
        call("Connection.getClientInfo", () -> String.valueOf(c.getClientInfo().stringPropertyNames()));
        call("Connection.setClientInfo(ApplicationName)", () -> {
            c.setClientInfo("ApplicationName", "Metadata");
            return c.getClientInfo("ApplicationName");
        });
        call("Connection.getWarnings", () -> String.valueOf(c.getWarnings()));
        call("Connection.getNetworkTimeout", c::getNetworkTimeout);
        call("Connection.setSchema(public)", () -> {
            c.setSchema("public");
            return c.getSchema();
        });
        call("Connection.getTypeMap", () -> String.valueOf(c.getTypeMap()));
        call("Connection.createArrayOf", () -> String.valueOf(c.createArrayOf("text", new Object[] {"a", "b"})));
    }

    /** What a server says of itself; some of these facts are read from its catalog. */
    private static void facts(DatabaseMetaData d) {
        call("getDatabaseProductName", d::getDatabaseProductName);
        call("getDatabaseProductVersion", d::getDatabaseProductVersion);
        call("getDatabaseMajorVersion", d::getDatabaseMajorVersion);
        call("getDatabaseMinorVersion", d::getDatabaseMinorVersion);
        call("getDriverName", d::getDriverName);
        call("getUserName", d::getUserName);
        call("isReadOnly", d::isReadOnly);
        call("getIdentifierQuoteString", d::getIdentifierQuoteString);
        call("getSearchStringEscape", d::getSearchStringEscape);
        call("getExtraNameCharacters", d::getExtraNameCharacters);
        call("storesLowerCaseIdentifiers", d::storesLowerCaseIdentifiers);
        call("getMaxColumnNameLength", d::getMaxColumnNameLength);
        call("getMaxTableNameLength", d::getMaxTableNameLength);
        call("getMaxSchemaNameLength", d::getMaxSchemaNameLength);
        call("getMaxCatalogNameLength", d::getMaxCatalogNameLength);
        call("getMaxUserNameLength", d::getMaxUserNameLength);
        call("getMaxCursorNameLength", d::getMaxCursorNameLength);
        call("getMaxProcedureNameLength", d::getMaxProcedureNameLength);
        call("getMaxColumnsInIndex", d::getMaxColumnsInIndex);
        call("getMaxColumnsInTable", d::getMaxColumnsInTable);
        call("getMaxConnections", d::getMaxConnections);
        call("getDefaultTransactionIsolation", d::getDefaultTransactionIsolation);
        call("getSQLKeywords", d::getSQLKeywords);
        call("getNumericFunctions", d::getNumericFunctions);
        call("getStringFunctions", d::getStringFunctions);
        call("getSystemFunctions", d::getSystemFunctions);
        call("getTimeDateFunctions", d::getTimeDateFunctions);
        call("supportsTransactions", d::supportsTransactions);
        call("supportsStoredProcedures", d::supportsStoredProcedures);
        call("getSchemaTerm", d::getSchemaTerm);
        call("getCatalogTerm", d::getCatalogTerm);
        call("getRowIdLifetime", () -> d.getRowIdLifetime().name());
    }

    /** What there is in the database. */
    private static void catalog(DatabaseMetaData d) {
        String[] tables = {"TABLE"};
        String[] shown = {"TABLE", "PARTITIONED TABLE", "VIEW", "FOREIGN TABLE", "MATERIALIZED VIEW"};
        call("getCatalogs", d::getCatalogs);
        call("getSchemas", () -> d.getSchemas());
        call("getSchemas(null, public)", () -> d.getSchemas(null, "public"));
        call("getTableTypes", d::getTableTypes);
        call("getTables(null, null, %, TABLE)", () -> d.getTables(null, null, "%", tables));
        call("getTables(null, null, null, null)", () -> d.getTables(null, null, null, null));
        call("getTables(hospital, public, %, shown)", () -> d.getTables("hospital", "public", "%", shown));
        call("getTables(null, public, patients, null)", () -> d.getTables(null, "public", "patients", null));
        call("getTables(null, null, nosuch, null)", () -> d.getTables(null, null, "nosuch", null));
        call("getColumns(null, public, patients, %)", () -> d.getColumns(null, "public", "patients", "%"));
        call("getColumns(null, public, visits, null)", () -> d.getColumns(null, "public", "visits", null));
        call("getColumns(null, public, %, %)", () -> d.getColumns(null, "public", "%", "%"));
        call("getColumns(null, null, patients, age)", () -> d.getColumns(null, null, "patients", "age"));
        call("getPrimaryKeys", () -> d.getPrimaryKeys(null, "public", "patients"));
        call("getIndexInfo", () -> d.getIndexInfo(null, "public", "patients", false, true));
        call("getIndexInfo(unique)", () -> d.getIndexInfo(null, "public", "patients", true, false));
        call("getImportedKeys", () -> d.getImportedKeys(null, "public", "patients"));
        call("getExportedKeys", () -> d.getExportedKeys(null, "public", "patients"));
        call("getCrossReference", () -> d.getCrossReference(null, "public", "patients", null, "public", "visits"));
        call("getBestRowIdentifier",
            () -> d.getBestRowIdentifier(null, "public", "patients", DatabaseMetaData.bestRowSession, true));
        call("getVersionColumns", () -> d.getVersionColumns(null, "public", "patients"));
        call("getTablePrivileges", () -> d.getTablePrivileges(null, "public", "patients"));
        call("getColumnPrivileges", () -> d.getColumnPrivileges(null, "public", "patients", "%"));
        call("getTypeInfo", d::getTypeInfo);
        call("getProcedures(null, public, %)", () -> d.getProcedures(null, "public", "%"));
        call("getProcedureColumns(null, public, %, %)", () -> d.getProcedureColumns(null, "public", "%", "%"));
        call("getFunctions(null, public, %)", () -> d.getFunctions(null, "public", "%"));
        call("getFunctionColumns(null, public, %, %)", () -> d.getFunctionColumns(null, "public", "%", "%"));
        call("getUDTs(null, null, %, null)", () -> d.getUDTs(null, null, "%", null));
        call("getClientInfoProperties", d::getClientInfoProperties);
        // the driver does not implement these; it says so without asking the server
        call("getSuperTables", () -> d.getSuperTables(null, "public", "%"));
        call("getAttributes", () -> d.getAttributes(null, "public", "%", "%"));
    }

    /** Statements with parameters; from the fifth execution on, the driver uses a named statement and binary values. */
    private static void queries(Connection c) {
        call("Statement SELECT count(*)", () -> read(c, "SELECT count(*) AS n FROM patients"));
        call("Statement two at once", () -> {
            try (Statement s = c.createStatement()) {
                s.execute("SELECT 1 AS a; SELECT 2 AS b");
                List<List<String>> rows = new ArrayList<>();
                do {
                    rows.addAll(table(s.getResultSet()).rows());
                } while (s.getMoreResults());
                return new Table(List.of("value"), rows);
            }
        });
        call("PreparedStatement setInt 6 times", () -> prepared(c,
            "SELECT count(*) AS n FROM patients WHERE age > ?", (p, i) -> p.setInt(1, i)));
        call("PreparedStatement setLong, setString, setBoolean 6 times", () -> prepared(c,
            "SELECT count(*) AS n FROM patients WHERE patient_id = ? AND region = ? AND diabetic = ?", (p, i) -> {
                p.setLong(1, i);
                p.setString(2, "north");
                p.setBoolean(3, i % 2 == 0);
            }));
        call("PreparedStatement setDate, setDouble, setTimestamp 6 times", () -> prepared(c,
            "SELECT count(*) AS n, avg(cost) AS a FROM visits WHERE day >= ? AND cost < ? AND seen < ?", (p, i) -> {
                p.setDate(1, Date.valueOf("2024-01-02"));
                p.setDouble(2, 1.5 + i);
                p.setTimestamp(3, Timestamp.valueOf("2024-01-02 03:04:05"));
            }));
        call("PreparedStatement setNull, setBigDecimal", () -> prepared(c,
            "SELECT count(*) AS n FROM visits WHERE ward = ? AND cost < ?", (p, i) -> {
                p.setNull(1, java.sql.Types.VARCHAR);
                p.setBigDecimal(2, new java.math.BigDecimal("10.5"));
            }));
        call("PreparedStatement setObject(LocalDate), setArray", () -> prepared(c,
            "SELECT count(*) AS n FROM visits WHERE day >= ? AND ward = ANY(?)", (p, i) -> {
                p.setObject(1, java.time.LocalDate.of(2024, 1, 2));
                p.setArray(2, c.createArrayOf("text", new Object[] {"a", "b"}));
            }));
        call("PreparedStatement.getParameterMetaData", () -> {
            try (PreparedStatement p = c.prepareStatement("SELECT count(*) FROM patients WHERE age > ?")) {
                return p.getParameterMetaData().getParameterTypeName(1);
            }
        });
        call("PreparedStatement.getMetaData without execution", () -> {
            try (PreparedStatement p = c.prepareStatement("SELECT age, region FROM patients")) {
                return p.getMetaData().getColumnTypeName(2);
            }
        });
        call("Statement.setMaxRows", () -> {
            try (Statement s = c.createStatement()) {
                s.setMaxRows(10);
                return table(s.executeQuery("SELECT region FROM patients"));
            }
        });
        call("Statement.setQueryTimeout", () -> {
            try (Statement s = c.createStatement()) {
                s.setQueryTimeout(5);
                return table(s.executeQuery("SELECT count(*) AS n FROM patients"));
            }
        });
        call("getObject of every type", () -> {
            String sql = "SELECT patient_id, ward, day, cost, seen FROM visits";
            try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
                while (r.next()) {
                    for (int i = 1; i <= 5; i++) {
                        r.getObject(i);
                    }
                }
                return true;
            }
        });
        call("syntax error", () -> read(c, "SELEC 1"));
        call("unknown table", () -> read(c, "SELECT * FROM nosuch"));
    }

    /** What a result says of its columns; the driver looks tables and nullability up in the catalog. */
    private static void resultSetMetaData(Connection c) {
        for (String sql : new String[] {
                "SELECT * FROM patients", "SELECT * FROM visits", "SELECT count(*) AS n, region FROM patients GROUP BY region"}) {
            call("ResultSetMetaData of " + sql, () -> {
                List<List<String>> rows = new ArrayList<>();
                try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
                    ResultSetMetaData m = r.getMetaData();
                    for (int i = 1; i <= m.getColumnCount(); i++) {
                        rows.add(List.of(m.getColumnName(i), m.getColumnLabel(i), m.getTableName(i), m.getSchemaName(i),
                            m.getCatalogName(i), m.getColumnTypeName(i), String.valueOf(m.getColumnType(i)),
                            m.getColumnClassName(i), String.valueOf(m.isNullable(i)), String.valueOf(m.isAutoIncrement(i)),
                            String.valueOf(m.isSigned(i)), String.valueOf(m.isCaseSensitive(i)),
                            String.valueOf(m.getPrecision(i)), String.valueOf(m.getScale(i)),
                            String.valueOf(m.getColumnDisplaySize(i))));
                    }
                }
                return new Table(List.of("name", "label", "table", "schema", "catalog", "type", "jdbc type", "class",
                    "nullable", "auto increment", "signed", "case sensitive", "precision", "scale", "size"), rows);
            });
        }
    }

    /** Transactions, savepoints, read-only, a cursor read in parts. */
    private static void transactions(Connection c) {
        call("transaction with commit", () -> {
            c.setAutoCommit(false);
            Table read = read(c, "SELECT 1 AS a");
            c.commit();
            return read;
        });
        call("transaction with savepoint and rollback", () -> {
            java.sql.Savepoint named = c.setSavepoint("s");
            Table read = read(c, "SELECT 2 AS a");
            c.rollback(named);
            c.releaseSavepoint(c.setSavepoint());
            c.rollback();
            return read;
        });
        call("setFetchSize (a portal read in parts)", () -> {
            try (Statement s = c.createStatement()) {
                s.setFetchSize(2);
                return table(s.executeQuery("SELECT n FROM (VALUES (1), (2), (3), (4), (5)) AS v(n)"));
            } finally {
                c.rollback();
            }
        });
        call("an error ends the transaction", () -> {
            try {
                read(c, "SELECT * FROM nosuch");
                return "no error";
            } catch (java.sql.SQLException e) {
                return e.getSQLState();
            } finally {
                c.rollback();
                c.setAutoCommit(true);
            }
        });
        call("setReadOnly(true)", () -> {
            c.setReadOnly(true);
            return c.isReadOnly();
        });
        call("transaction, read-only", () -> {
            c.setAutoCommit(false);
            Table read = read(c, "SELECT 3 AS a");
            c.commit();
            c.setAutoCommit(true);
            return read;
        });
        call("setReadOnly(false)", () -> {
            c.setReadOnly(false);
            return c.isReadOnly();
        });
        call("setTransactionIsolation(SERIALIZABLE)", () -> {
            c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            return c.getTransactionIsolation();
        });
        call("Statement.cancel of nothing", () -> {
            Statement s = c.createStatement();
            s.cancel();  // nothing runs, hence nothing is sent
            s.close();
            return s.isClosed();
        });
    }

    /** Sets the parameters of the i-th execution. */
    interface Binder {
        void bind(PreparedStatement statement, int i) throws Exception;
    }

    /** Executes the same statement six times, and gives the rows of all executions. */
    private static Table prepared(Connection c, String sql, Binder binder) throws Exception {
        List<List<String>> rows = new ArrayList<>();
        List<String> columns = List.of();
        try (PreparedStatement p = c.prepareStatement(sql)) {
            for (int i = 1; i <= 6; i++) {
                binder.bind(p, i);
                Table table = table(p.executeQuery());
                columns = table.columns();
                rows.addAll(table.rows());
            }
        }
        return new Table(columns, rows);
    }

    private static Table read(Connection c, String sql) throws Exception {
        try (Statement s = c.createStatement()) {
            return table(s.executeQuery(sql));
        }
    }

    private static Table table(ResultSet result) throws Exception {
        try (result) {
            ResultSetMetaData meta = result.getMetaData();
            List<String> columns = new ArrayList<>();
            for (int i = 1; i <= meta.getColumnCount(); i++) {
                columns.add(meta.getColumnLabel(i));
            }
            List<List<String>> rows = new ArrayList<>();
            while (result.next()) {
                List<String> row = new ArrayList<>();
                for (int i = 1; i <= columns.size(); i++) {
                    row.add(result.getString(i));
                }
                rows.add(row);
            }
            return new Table(columns, rows);
        }
    }

    private static Table table(String column, Object value) {
        List<String> row = new ArrayList<>();  // List.of refuses null
        row.add(value == null ? null : value.toString());
        return new Table(List.of(column), List.of(row));
    }

    /** Runs one call, and prints what it returns or why it failed. */
    private static void call(String name, Call call) {
        begin(name);
        try {
            Object value = call.run();
            if (value instanceof ResultSet result) {
                print(name, table(result));
            } else if (value instanceof Table table) {
                print(name, table);
            } else {
                print(name, table("value", value));
            }
        } catch (Exception e) {
            String state = e instanceof java.sql.SQLException s && s.getSQLState() != null ? s.getSQLState() + " " : "";
            OUT.println("{\"call\": " + quote(name) + ", \"error\": " + quote(state + e.getMessage()) + "}");
        }
    }

    private static void begin(String name) {
        if (PAUSE) {
            OUT.println("{\"begin\": " + quote(name) + "}");
            try {
                while (System.in.read() != '\n') {
                    continue;
                }
            } catch (java.io.IOException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    private static void print(String name, Table table) {
        StringBuilder json = new StringBuilder("{\"call\": ").append(quote(name)).append(", \"columns\": ");
        list(json, table.columns());
        json.append(", \"rows\": [");
        for (int i = 0; i < table.rows().size(); i++) {
            json.append(i == 0 ? "" : ", ");
            list(json, table.rows().get(i));
        }
        OUT.println(json.append("]}"));
    }

    private static void list(StringBuilder json, List<String> values) {
        json.append("[");
        for (int i = 0; i < values.size(); i++) {
            json.append(i == 0 ? "" : ", ").append(quote(values.get(i)));
        }
        json.append("]");
    }

    private static String quote(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
