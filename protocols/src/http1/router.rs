//! Which handler a request is for: by method and path, as plain as a list.
//!
//! A pattern is segments between slashes; `{name}` takes any one segment that is not empty. The first pattern that was added and fits
//! wins. Nothing is decoded before it is compared, so an encoded slash does not make a segment two; a handler asks for decoding where
//! it wants it.

use super::{
    outgoing::Field,
    percent::{PercentError, decode},
    reply::{Reply, Response},
    request::Request,
    server::Server,
    status::Status,
};
use crate::machine::{App, Flow};
use std::fmt;

/// Segments a pattern may take, at most.
pub const MOST_PARAMS: usize = 8;

type Handler = Box<dyn Fn(&mut Request<'_>, &Params<'_>, Reply<'_>)>;

/// Handlers by method and path. HEAD falls back to GET, OPTIONS is answered with what a path allows, an unknown path with 404, an unknown
/// method with 405 and Allow (RFC 9110 section 15.5.6).
///
/// It is made once and shared: `Rc<Router>` and a closure over [`serve`](Self::serve) is one application per connection.
#[derive(Default)]
pub struct Router {
    routes: Vec<Route>,
    otherwise: Option<Handler>,
}

struct Route {
    method: String,
    pattern: Pattern,
    handler: Handler,
}

impl Router {
    /// One that knows no path.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler.
    ///
    /// # Panics
    /// The pattern does not begin with a slash, has more than [`MOST_PARAMS`] names, or has braces that are not those of a name.
    #[must_use]
    pub fn route(
        mut self,
        method: &str,
        pattern: &str,
        handler: impl Fn(&mut Request<'_>, &Params<'_>, Reply<'_>) + 'static,
    ) -> Self {
        self.routes.push(Route {
            method: method.to_owned(),
            pattern: Pattern::parse(pattern),
            handler: Box::new(handler),
        });
        self
    }

    /// What is done with every method on paths that no pattern fits, instead of 404.
    #[must_use]
    pub fn otherwise(
        mut self,
        handler: impl Fn(&mut Request<'_>, &Params<'_>, Reply<'_>) + 'static,
    ) -> Self {
        self.otherwise = Some(Box::new(handler));
        self
    }

    /// Gives a request to its handler.
    pub fn serve(&self, mut request: Request<'_>, reply: Reply<'_>) -> Flow {
        let path = request.target.path;
        match self.find(request.method, path) {
            Some((handler, params)) => handler(&mut request, &params, reply),
            None => self.refuse(&mut request, path, reply),
        }
        Flow::Continue
    }

    fn find<'p>(&'p self, method: &str, path: &'p str) -> Option<(&'p Handler, Params<'p>)> {
        let of = |method: &str| {
            let mut routes = self.routes.iter().filter(|route| route.method == method);
            routes.find_map(|route| Some((&route.handler, route.pattern.fit(path)?)))
        };
        of(method).or_else(|| (method == "HEAD").then(|| of("GET"))?)
    }

    /// There is no handler for this method on this path.
    fn refuse(&self, request: &mut Request<'_>, path: &str, reply: Reply<'_>) {
        let allow = self.allow(path);
        let status = match (allow.is_empty(), request.method) {
            (true, _) => match &self.otherwise {
                Some(handler) => return handler(request, &Params::default(), reply),
                None => Status::NOT_FOUND,
            },
            (false, "OPTIONS") => Status::NO_CONTENT,
            (false, _) => Status::METHOD_NOT_ALLOWED,
        };
        let allow = [("Allow", allow.as_bytes())];
        let headers: &[Field<'_>] = match status {
            Status::NOT_FOUND => &[],
            _ => &allow,
        };
        let response = Response {
            status,
            headers,
            body: &[],
        };
        // A method that is no token would be answered with 500.
        let _ = reply.respond(&response);
    }

    /// The methods a path allows, as Allow lists them; empty if there is no such path.
    fn allow(&self, path: &str) -> String {
        let mut methods: Vec<&str> = Vec::new();
        for route in &self.routes {
            if path == "*" || route.pattern.fit(path).is_some() {
                methods.push(&route.method);
            }
        }
        if methods.is_empty() {
            return String::new();
        }
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        methods.sort_unstable();
        methods.dedup();
        methods.join(", ")
    }
}

impl App<Server> for Router {
    fn message(&mut self, message: Request<'_>, reply: Reply<'_>) -> Flow {
        self.serve(message, reply)
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routes = self
            .routes
            .iter()
            .map(|route| (&route.method, &route.pattern));
        f.debug_map().entries(routes).finish_non_exhaustive()
    }
}

/// What the names of a pattern stand for in a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Params<'p> {
    pairs: [(&'p str, &'p str); MOST_PARAMS],
    count: usize,
}

impl<'p> Params<'p> {
    /// The segment called `name`, as it was sent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'p str> {
        let pairs = &self.pairs[..self.count];
        let pair = pairs.iter().find(|(other, _)| *other == name)?;
        Some(pair.1)
    }

    /// The segment called `name`, with its percent-encoding undone; it may have a slash in it then. `None` if the pattern has no such
    /// name, an error inside if the encoding is malformed or not of UTF-8.
    pub fn decoded(&self, name: &str) -> Option<Result<String, PercentError>> {
        self.get(name).map(decode)
    }
}

#[derive(Debug)]
struct Pattern(Vec<Segment>);

#[derive(Debug)]
enum Segment {
    Fixed(String),
    Named(String),
}

impl Pattern {
    fn parse(pattern: &str) -> Self {
        let segments = pattern
            .strip_prefix('/')
            .expect("a pattern begins with a slash")
            .split('/');
        let segments: Vec<_> = segments.map(Segment::parse).collect();
        let named = |segment: &&Segment| matches!(segment, Segment::Named(_));
        let names = segments.iter().filter(named).count();
        assert!(names <= MOST_PARAMS, "at most {MOST_PARAMS} names");
        Self(segments)
    }

    fn fit<'p>(&'p self, path: &'p str) -> Option<Params<'p>> {
        let mut segments = path.strip_prefix('/')?.split('/');
        let mut params = Params::default();
        for expected in &self.0 {
            let segment = segments.next()?;
            match expected {
                Segment::Fixed(text) if text == segment => {}
                Segment::Named(name) if !segment.is_empty() => {
                    params.pairs[params.count] = (name, segment);
                    params.count += 1;
                }
                _ => return None,
            }
        }
        segments.next().is_none().then_some(params)
    }
}

impl Segment {
    fn parse(segment: &str) -> Self {
        let name = segment
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        let text = name.unwrap_or(segment);
        assert!(!text.contains(['{', '}']), "braces enclose a whole segment");
        match name {
            Some(name) => Self::Named(name.to_owned()),
            None => Self::Fixed(text.to_owned()),
        }
    }
}
