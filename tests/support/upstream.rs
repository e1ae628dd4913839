//! A stub upstream: HTTP/1.1 with keep-alive on a port of its own, with one thread per connection. It answers faithfully
//! unless told otherwise, and remembers every request it got.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::reply::{Body, End, Gate, Reply, Step};
use super::{eventually, wire};

/// One running stub; its port closes when it is dropped.
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A request that the stub received.
#[derive(Clone)]
pub struct ReceivedRequest {
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The connection's number, from 0: equal for requests that shared a connection.
    pub connection: usize,
    hung_up: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
}

/// Answers requests for which there is no rule; `None` leaves the answer to the faithful data plane.
type Handler = dyn Fn(&ReceivedRequest) -> Option<Reply> + Send + Sync;

struct Shared {
    models: Mutex<Vec<String>>,
    handler: Mutex<Option<Arc<Handler>>>,
    rules: Mutex<Vec<Rule>>,
    asked: Mutex<Vec<ReceivedRequest>>,
    connections: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
    closed: AtomicBool,
}

/// A scripted answer. The first rule that fits is used; newer ones come first, so that a test can change an answer.
struct Rule {
    path: String,
    model: Option<String>,
    times: Option<usize>,
    reply: Reply,
}

impl Upstream {
    /// Starts a stub that also lists these models as Google's API does.
    pub fn of_google(models: &[&str]) -> Self {
        let upstream = Self::start(models);
        let listed = models.iter().map(
            |model| json!({"name": format!("models/{model}"), "supportedGenerationMethods": ["generateContent"]}),
        );
        let listed: Vec<Value> = listed.collect();
        upstream.answer("/v1beta/models", Reply::json(200, &json!({ "models": listed })));
        upstream
    }

    /// Starts a stub that offers these models.
    pub fn start(models: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            models: Mutex::new(models.iter().map(|&m| m.to_owned()).collect()),
            handler: Mutex::default(),
            rules: Mutex::default(),
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
            open: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared }
    }

    /// Starts a stub whose model is available at only one of the paths for model requests.
    pub fn with_one_path(model: &str, offered: &str) -> Self {
        let upstream = Self::start(&[model]);
        for path in ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages"] {
            if path != offered {
                upstream.answer(path, Reply::error(404, "Not found"));
            }
        }
        upstream
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Offers other models from now on.
    pub fn offer(&self, models: &[&str]) {
        *self.shared.models.lock().expect("no panic there") = models.iter().map(|&m| m.to_owned()).collect();
    }

    /// Answers requests without a rule by `handler` first, from now on.
    pub fn serve(&self, handler: impl Fn(&ReceivedRequest) -> Option<Reply> + Send + Sync + 'static) {
        *self.shared.handler.lock().expect("no panic there") = Some(Arc::new(handler));
    }

    /// Sets the reply to requests to `path` from now on.
    pub fn answer(&self, path: &str, reply: Reply) {
        self.rule(path, None, None, reply);
    }

    /// Sets the reply to the next request to `path`.
    pub fn answer_once(&self, path: &str, reply: Reply) {
        self.rule(path, None, Some(1), reply);
    }

    /// Sets the reply to requests to `path` for this model.
    pub fn answer_model(&self, path: &str, model: &str, reply: Reply) {
        self.rule(path, Some(model), None, reply);
    }

    /// Removes all rules, so that it answers faithfully again.
    pub fn answer_faithfully(&self) {
        self.shared.rules.lock().expect("no panic there").clear();
    }

    fn rule(&self, path: &str, model: Option<&str>, times: Option<usize>, reply: Reply) {
        let rule = Rule { path: path.to_owned(), model: model.map(str::to_owned), times, reply };
        self.shared.rules.lock().expect("no panic there").insert(0, rule);
    }

    /// Closes the port and every open connection: from now on, connections are refused.
    pub fn refuse(&self) {
        if self.shared.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        // The accept loop checks the flag after each connection; this one wakes it.
        let _ = TcpStream::connect(self.address);
        self.hang_up();
        eventually("the stub's port is closed", || TcpStream::connect(self.address).is_err().then_some(()));
    }

    /// Closes every open connection, but still accepts new ones.
    pub fn hang_up(&self) {
        for stream in self.shared.open.lock().expect("no panic there").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns every request so far, oldest first.
    pub fn asked(&self) -> Vec<ReceivedRequest> {
        self.shared.asked.lock().expect("no panic there").clone()
    }

    /// Returns the requests to one path.
    pub fn asked_for(&self, path: &str) -> Vec<ReceivedRequest> {
        let asked = self.asked().into_iter();
        asked.filter(|asked| asked.path() == path).collect()
    }

    /// Waits until nothing more is sent for the latest `count` requests to `path`, because the buffers of the kernel are
    /// full. Returns how many bytes of each answer were sent.
    #[track_caller]
    pub fn wait_until_stalled(&self, path: &str, count: usize) -> Vec<u64> {
        let (mut last, mut since) = (Vec::new(), Instant::now());
        eventually("the upstream has to wait", || {
            let sent: Vec<u64> =
                self.asked_for(path).iter().rev().take(count).map(ReceivedRequest::sent).collect();
            if sent != last {
                (last, since) = (sent, Instant::now());
            }
            let is_stalled = last.len() == count && since.elapsed() > Duration::from_millis(500);
            is_stalled.then(|| last.clone())
        })
    }

    /// Waits for a request to `path`; returns the latest one.
    #[track_caller]
    pub fn last(&self, path: &str) -> ReceivedRequest {
        eventually(&format!("the upstream is asked for {path}"), || self.asked_for(path).pop())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.refuse();
    }
}

// === impl ReceivedRequest ===

impl ReceivedRequest {
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// Returns whether the other side closed the connection before the answer was complete.
    pub fn hung_up(&self) -> bool {
        self.hung_up.load(Ordering::SeqCst)
    }

    /// Returns how many bytes of the answer's body were handed to the kernel so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }
}

// === serving ===

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        if let Ok(copy) = stream.try_clone() {
            shared.open.lock().expect("no panic there").push(copy);
        }
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            let number = shared.connections.fetch_add(1, Ordering::SeqCst);
            let _ = stream.set_nodelay(true);
            // An error means that the other side is gone, so nobody is left to be told.
            let _ = serve(stream, number, &shared);
        });
    }
}

fn serve(stream: TcpStream, number: usize, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read_request(&mut reader, number)? {
        // The rule is taken first: who sees this request may count on it that the next one gets another rule.
        let ruled = shared.take_rule(&asked);
        shared.asked.lock().expect("no panic there").push(asked.clone());
        let reply = ruled.unwrap_or_else(|| shared.reply_without_rule(&asked));
        if !play(&reply, reader.get_mut(), &asked)? {
            let _ = reader.get_ref().shutdown(Shutdown::Both);
            return Ok(());
        }
    }
    Ok(())
}

impl Shared {
    /// Returns the reply of the first rule for this request.
    fn take_rule(&self, asked: &ReceivedRequest) -> Option<Reply> {
        let mut rules = self.rules.lock().expect("no panic there");
        let is_of_model =
            |rule: &Rule| rule.model.as_deref().is_none_or(|model| json_of(asked)["model"] == model);
        let index = rules.iter().position(|rule| rule.path == asked.path() && is_of_model(rule))?;
        let reply = rules[index].reply.clone();
        if let Some(times) = &mut rules[index].times {
            *times -= 1;
            if *times == 0 {
                rules.remove(index);
            }
        }
        Some(reply)
    }

    fn reply_without_rule(&self, asked: &ReceivedRequest) -> Reply {
        let handler = self.handler.lock().expect("no panic there").clone();
        if let Some(reply) = handler.and_then(|handler| handler(asked)) {
            return reply;
        }
        let models = self.models.lock().expect("no panic there").clone();
        wire::faithful(&asked.method, asked.path(), &json_of(asked), &models)
    }
}

fn json_of(asked: &ReceivedRequest) -> Value {
    serde_json::from_slice(&asked.body).unwrap_or(Value::Null)
}

fn read_request(
    reader: &mut BufReader<TcpStream>,
    connection: usize,
) -> std::io::Result<Option<ReceivedRequest>> {
    let request_line = read_line(reader)?;
    let mut words = request_line.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut asked = ReceivedRequest {
        method,
        target,
        headers,
        body: Vec::new(),
        connection,
        hung_up: Arc::default(),
        sent: Arc::default(),
    };
    if asked.header("transfer-encoding").is_some() {
        loop {
            let size = usize::from_str_radix(&read_line(reader)?, 16);
            let size = size.map_err(|_| ErrorKind::InvalidData)?;
            let at = asked.body.len();
            asked.body.resize(at + size, 0);
            reader.read_exact(&mut asked.body[at..])?;
            read_line(reader)?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = asked.header("content-length") {
        asked.body = vec![0; length.parse().map_err(|_| ErrorKind::InvalidData)?];
        reader.read_exact(&mut asked.body)?;
    }
    Ok(Some(asked))
}

fn read_line(reader: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Sends a reply; returns whether the connection may carry another request.
fn play(reply: &Reply, stream: &mut TcpStream, asked: &ReceivedRequest) -> std::io::Result<bool> {
    let played = try_play(reply, stream, asked);
    if played.is_err() {
        asked.hung_up.store(true, Ordering::SeqCst);
    }
    played
}

fn try_play(reply: &Reply, stream: &mut TcpStream, asked: &ReceivedRequest) -> std::io::Result<bool> {
    for step in &reply.before {
        take(step, stream, asked)?;
    }
    if let End::Silent = reply.end {
        return Ok(false);
    }
    let mut head = format!("HTTP/1.1 {} {}\r\n", reply.status, reason(reply.status));
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    match &reply.body {
        Body::Whole(bytes) => {
            head += &format!("content-length: {}\r\n\r\n", bytes.len());
            let mut answer = head.into_bytes();
            if asked.method != "HEAD" {
                answer.extend(bytes);
            }
            stream.write_all(&answer)?;
            asked.sent.store(bytes.len() as u64, Ordering::SeqCst);
            Ok(true)
        }
        Body::Steps(steps) => {
            stream.write_all((head + "transfer-encoding: chunked\r\n\r\n").as_bytes())?;
            let clean = matches!(reply.end, End::Clean);
            // The end is sent with the last piece: the gateway would wait a tenth of a second for an end that comes alone.
            let (steps, last) = match steps.split_last() {
                Some((Step::Piece(last), before)) if clean && !last.is_empty() => (before, Some(last)),
                _ => (&steps[..], None),
            };
            for step in steps {
                take(step, stream, asked)?;
            }
            if let Some(last) = last {
                let size = format!("{:x}\r\n", last.len());
                stream.write_all(&[size.as_bytes(), &last[..], b"\r\n0\r\n\r\n"].concat())?;
                asked.sent.fetch_add(last.len() as u64, Ordering::SeqCst);
            } else if clean {
                stream.write_all(b"0\r\n\r\n")?;
            }
            Ok(clean)
        }
    }
}

fn take(step: &Step, stream: &mut TcpStream, asked: &ReceivedRequest) -> std::io::Result<()> {
    match step {
        Step::Piece(bytes) => {
            let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
            chunk.extend_from_slice(bytes);
            chunk.extend(b"\r\n");
            stream.write_all(&chunk)?;
            asked.sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            Ok(())
        }
        Step::Pause(delay) => {
            std::thread::sleep(*delay);
            Ok(())
        }
        Step::Wait(gate) => wait(stream, || gate.wait_a_moment() || gate.is_open()),
        Step::Stall => wait(stream, || false),
    }
}

/// Waits until `over`; fails when the other side hangs up meanwhile.
fn wait(stream: &TcpStream, mut over: impl FnMut() -> bool) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(5)))?;
    let deadline = Instant::now() + Gate::LIMIT;
    let mut byte = [0];
    while !over() {
        match stream.peek(&mut byte) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(error);
            }
            _ if Instant::now() > deadline => return Err(ErrorKind::TimedOut.into()),
            _ => {}
        }
    }
    stream.set_read_timeout(None)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
