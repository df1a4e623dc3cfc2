//! Prometheus text, written by hand: a dozen series need no registry.

use std::{
    fmt::{Display, Write},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Collects the text of one scrape.
#[derive(Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// The content type of the text.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Adds a counter.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.sample(name, "", value);
    }

    /// Adds a counter with one label.
    pub fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        self.head(name, help, "counter");
        for (value_of_label, value) in values {
            self.sample(name, &format!("{{{label}=\"{value_of_label}\"}}"), value);
        }
    }

    /// Adds a gauge.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help, "gauge");
        self.sample(name, "", value);
    }

    /// Adds a histogram of seconds.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (bound, count) in Histogram::BOUNDS_MS.iter().zip(&histogram.buckets) {
            below += count.load(Ordering::Relaxed);
            let seconds = *bound as f64 / 1000.0;
            self.sample(&bucket, &format!("{{le=\"{seconds}\"}}"), below);
        }
        let count = histogram.count.load(Ordering::Relaxed);
        self.sample(&bucket, "{le=\"+Inf\"}", count);
        let sum = histogram.sum_micros.load(Ordering::Relaxed) as f64 / 1e6;
        self.sample(&format!("{name}_sum"), "", sum);
        self.sample(&format!("{name}_count"), "", count);
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }
}

/// Durations in fixed buckets.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; Histogram::BOUNDS_MS.len()],
    count: AtomicU64,
    sum_micros: AtomicU64,
}

impl Histogram {
    const BOUNDS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30000];

    /// Adds one duration.
    pub fn record(&self, duration: Duration) {
        if let Some(slot) =
            Self::BOUNDS_MS.iter().position(|bound| duration <= Duration::from_millis(*bound))
        {
            self.buckets[slot].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Exposition, Histogram};

    #[test]
    fn a_scrape_has_golden_text() {
        let mut text = Exposition::default();
        text.counter("a_total", "How many.", 3);
        text.counters("b_total", "By status.", "status", [("ok", 1), ("error", 2)]);
        text.gauge("c", "Now.", 4);
        assert_eq!(
            text.finish(),
            "# HELP a_total How many.\n# TYPE a_total counter\na_total 3\n\
             # HELP b_total By status.\n# TYPE b_total counter\n\
             b_total{status=\"ok\"} 1\nb_total{status=\"error\"} 2\n\
             # HELP c Now.\n# TYPE c gauge\nc 4\n"
        );
    }

    #[test]
    fn buckets_count_everything_below_them() {
        let histogram = Histogram::default();
        for ms in [0, 3, 700, 90_000] {
            histogram.record(Duration::from_millis(ms));
        }
        let mut text = Exposition::default();
        text.histogram("h", "Time.", &histogram);
        let text = text.finish();
        for line in ["h_bucket{le=\"0.001\"} 1", "h_bucket{le=\"1\"} 3", "h_bucket{le=\"+Inf\"} 4"]
        {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
    }
}
